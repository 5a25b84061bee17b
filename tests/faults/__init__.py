"""Fault suites: functions that try failures and return figures. Short versions run in tests/store."""
