"""The public packages whose English and German texts become pairs."""

import dataclasses
import pathlib
from collections.abc import Callable

import ende_alignment as alignment
from ende_packages import Package


@dataclasses.dataclass(frozen=True)
class Source:
  """Packages of one project, the licence of their texts, and what pairs these up in a folder of the unpacked files."""

  name: str
  licence: str
  packages: tuple[Package, ...]
  pairs: Callable[[pathlib.Path], alignment.Pairs]


GERMAN_CATALOGUE = r'/de(_DE)?/LC_MESSAGES/[^/]*\.mo$'
OPENUI5 = (('sap.f', '1.152.0'), ('sap.m', '1.152.0'), ('sap.ui.core', '1.152.0'), ('sap.ui.fl', '1.152.0'),
           ('sap.ui.integration', '1.150.0'), ('sap.ui.mdc', '1.152.0'), ('sap.ui.rta', '1.146.0'),
           ('sap.ui.table', '1.152.0'), ('sap.ui.unified', '1.152.0'), ('sap.uxap', '1.152.0'))
# The validation and test sets and the vocabulary come from these.
FIRST = (
    Source('libreoffice-help', 'MPL-2.0', (
        Package('debian', 'libreoffice-help-en-us', wanted=r'\.html$'),
        Package('debian', 'libreoffice-help-de', wanted=r'\.html$')), alignment.libreoffice_help),
    Source('libreoffice-l10n', 'MPL-2.0', (
        Package('debian', 'libreoffice-l10n-de', wanted=r'LC_MESSAGES/.*\.mo$'),), alignment.catalogues),
    Source('home-assistant', 'Apache-2.0', (
        Package('pypi', 'homeassistant', '2026.2.3', r'translations/(en|de)\.json$'),),
           alignment.json_pairs('translations/en.json', 'de.json')),
    Source('typescript', 'Apache-2.0', (
        Package('npm', 'typescript', '5.9.3', r'lib/typescript\.js$|lib/de/'),), alignment.typescript),
)
# More pairs to train on.
FURTHER = (
    Source('vscode', 'MIT', (
        Package('npm', '@codingame/monaco-vscode-language-pack-de', '25.1.2', 'translations/'),
        Package('npm', '@codingame/monaco-vscode-language-pack-qps-ploc', '25.1.2', 'translations/')),
           alignment.vscode),
    Source('firefox', 'MPL-2.0', (
        Package('debian', 'firefox-esr', wanted=r'omni\.ja$'),
        Package('debian', 'firefox-esr-l10n-de', wanted=r'\.xpi$')), alignment.mozilla),
    Source('thunderbird', 'MPL-2.0', (
        Package('debian', 'thunderbird', wanted=r'omni\.ja$'),
        Package('debian', 'thunderbird-l10n-de', wanted=r'\.xpi$')), alignment.mozilla),
    Source('chromium', 'BSD-3-Clause', (
        Package('debian', 'chromium-common', wanted=r'locales/en-US\.pak$'),
        Package('debian', 'chromium-l10n', wanted=r'locales/de\.pak$')), alignment.chromium),
    Source('postgresql', 'PostgreSQL', (
        Package('debian', 'postgresql-15', wanted=GERMAN_CATALOGUE),
        Package('debian', 'postgresql-client-15', wanted=GERMAN_CATALOGUE),
        Package('debian', 'libpq5', wanted=GERMAN_CATALOGUE)), alignment.catalogues),
    Source('home-assistant-frontend', 'Apache-2.0', (
        Package('pypi', 'home-assistant-frontend', '20260128.6', r'static/translations/.*(en|de)-[0-9a-f]+\.json$'),),
           alignment.json_pairs('en-[0-9a-f]*.json', 'de-[0-9a-f]*.json')),
    # The .mo of superset holds fuzzy entries too.
    Source('superset', 'Apache-2.0', (
        Package('pypi', 'apache-superset', '6.1.0', r'/de/LC_MESSAGES/messages\.po$'),), alignment.translations),
    Source('matrix-react-sdk', 'Apache-2.0', (
        Package('npm', 'matrix-react-sdk', '3.80.0', r'i18n/strings/(en_EN|de_DE)\.json$'),),
           alignment.json_pairs('en_EN.json', 'de_DE.json')),
    Source('subversion', 'Apache-2.0', (
        Package('debian', 'subversion', wanted=GERMAN_CATALOGUE),), alignment.catalogues),
    Source('cups', 'Apache-2.0', (
        Package('debian', 'cups-common', wanted=r'/cups_de\.po$'),), alignment.translations),
    Source('derby', 'Apache-2.0', (
        Package('debian', 'libderby-java', wanted=r'/java/derby(Locale_de_DE-.*)?\.jar$'),),
           alignment.bundles('_en.properties', '_de_DE.properties')),
    Source('tomcat', 'Apache-2.0', (
        Package('debian', 'libtomcat9-java', wanted=r'/java/tomcat9-(i18n-de-|(?!i18n)[a-z-]+-)[\d.]+\.jar$'),),
           alignment.bundles('.properties', '_de.properties')),
    Source('node-red', 'Apache-2.0', (
        Package('npm', '@node-red/editor-client', '5.0.7', 'locales/(en-US|de)/'),
        Package('npm', '@node-red/nodes', '5.0.7', 'locales/(en-US|de)/')), alignment.node_red),
    Source('openui5', 'Apache-2.0', tuple(
        Package('npm', f'@openui5/{name}', version, r'messagebundle(_de)?\.properties$')
        for name, version in OPENUI5), alignment.bundles('.properties', '_de.properties')),
    Source('spyder', 'MIT', (
        Package('pypi', 'spyder', '6.1.8', GERMAN_CATALOGUE),), alignment.catalogues),
    Source('wagtail', 'BSD-3-Clause', (
        Package('pypi', 'wagtail', '8.0.1', GERMAN_CATALOGUE),), alignment.catalogues),
    Source('jupyterlab', 'BSD-3-Clause', (
        Package('pypi', 'jupyterlab-language-pack-de-DE', '4.5.post3', GERMAN_CATALOGUE),), alignment.catalogues),
    Source('django', 'BSD-3-Clause', (
        Package('pypi', 'django', '6.1.3', GERMAN_CATALOGUE),), alignment.catalogues),
    Source('pgadmin', 'PostgreSQL', (
        Package('pypi', 'pgadmin4', '9.18', GERMAN_CATALOGUE),), alignment.catalogues),
)
