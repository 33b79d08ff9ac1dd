// Package hangup catches SIGHUP before anything else of the program begins: while
// packages are initialised, which takes longer than all that main does before it
// could. It knows nothing of the program but its command line.
package hangup

import (
	"os"
	"os/signal"
	"syscall"
)

var caught = atStart(os.Args)

// atStart returns a channel for SIGHUP. It catches the signal at once if the command is run, which
// reads its configuration again at it. Any other command ends at SIGHUP, as programs do. It knows
// run only as the first argument: behind that, the same word can be a value or an operand.
func atStart(args []string) chan os.Signal {
	c := make(chan os.Signal, 1)
	if len(args) > 1 && args[1] == "run" {
		catch(c)
	}
	return c
}

// catch has each SIGHUP sent to c from now on. It does nothing if that is so already.
func catch(c chan<- os.Signal) { signal.Notify(c, syscall.SIGHUP) }

// Caught is where each SIGHUP arrives since the start, several that nobody received
// as one. If run is not the first argument of the process, as in "--config FILE run", it is each
// SIGHUP since the first call of Caught.
func Caught() <-chan os.Signal {
	catch(caught)
	return caught
}
