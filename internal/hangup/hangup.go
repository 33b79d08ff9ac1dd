// Package hangup catches SIGHUP before anything else of the program begins: while
// packages are initialised, which takes longer than all that main does before it
// could. It knows nothing of the program but its command line.
package hangup

import (
	"os"
	"os/signal"
	"slices"
	"syscall"
)

var caught = atStart(os.Args)

// atStart catches SIGHUP from the beginning of the process if the command is run, which reads its
// configuration again at that signal. Any other command ends at SIGHUP, as programs do.
func atStart(args []string) chan os.Signal {
	c := make(chan os.Signal, 1)
	if slices.Contains(args[min(1, len(args)):], "run") {
		signal.Notify(c, syscall.SIGHUP)
	}
	return c
}

// Caught is where each SIGHUP arrives since the start, several that nobody received
// as one.
func Caught() <-chan os.Signal { return caught }
