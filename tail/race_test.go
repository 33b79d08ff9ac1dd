//go:build race

package tail

func init() { raceDetector = true }
