from tiny_pair import draft, target, vocabulary  # pylint: disable=unused-import
