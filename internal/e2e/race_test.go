//go:build race

package e2e

// underRace says that the race detector takes part, and takes memory.
const underRace = true
