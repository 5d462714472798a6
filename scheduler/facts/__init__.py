"""All that a judgement may know, as frozen dataclasses [pure]."""
