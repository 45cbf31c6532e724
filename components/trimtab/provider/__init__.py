"""The resource provider plugin ``trimtab``: what turns declarations into AWS calls."""
