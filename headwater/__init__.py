"""The product: settings, the embedded stack, the command line, the pages. The one package that knows the others."""

__version__ = "0.1.0"
