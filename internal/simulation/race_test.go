//go:build race

package simulation

// racing says that the race detector watches, which takes ten times as long.
const racing = true
