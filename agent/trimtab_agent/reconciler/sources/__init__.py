"""Where observations come from: one module a source, each answering with data or with why there is none."""
