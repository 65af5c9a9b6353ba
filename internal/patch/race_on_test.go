//go:build race

package patch

// raceDetector says that the race detector is on: what it watches takes more memory.
const raceDetector = true
