from tiny_pair import draft, files, target, vocabulary  # pylint: disable=unused-import
