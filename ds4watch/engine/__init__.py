"""One evaluation after another: the tick, the calendar jobs, the quality runs."""
