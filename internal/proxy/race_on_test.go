//go:build race

package proxy

// raceEnabled says that everything takes several times the memory.
const raceEnabled = true
