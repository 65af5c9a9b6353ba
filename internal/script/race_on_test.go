//go:build race

package script

// slowdown is by how much the race detector slows the engine down.
const slowdown = 20
