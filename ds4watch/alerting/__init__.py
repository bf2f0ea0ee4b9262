"""Rule files, the alert state machine, templates: values in, values out."""
