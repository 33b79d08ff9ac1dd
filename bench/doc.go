// Package bench promises figures that compare: the agent as its users run it,
// and the plain limit of reading, gzip and posting, take turns over the same
// files and the same sink in the same minutes, each in a process of its own
// that the kernel keeps the accounts of. A run counts only if the sink holds
// every record exactly once.
//
// It needs Linux, for /proc.
package bench
