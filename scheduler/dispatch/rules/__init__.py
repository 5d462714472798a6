"""Decision rules of dispatch: functions from facts to decisions [pure]."""
