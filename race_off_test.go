//go:build !race

package srt

const raceEnabled = false
