//go:build race

package srt

// raceEnabled says that each process takes a second to end; see GORACE.
const raceEnabled = true
