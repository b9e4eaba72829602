"""Built-in tasks on real files: a sales export, and a public-domain table."""
