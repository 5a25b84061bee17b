"""Value functions behind one interface; a new critic is one file and one line in `build`."""
