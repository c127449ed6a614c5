"""The paper's experiments: run, analyse, plot."""
