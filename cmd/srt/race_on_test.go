//go:build race

package main

// raceEnabled says that each process takes a second to end; see GORACE.
const raceEnabled = true
