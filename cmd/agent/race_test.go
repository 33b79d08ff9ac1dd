//go:build race

package main

// underRace says that the race detector takes part, and takes memory.
const underRace = true
