package e2e

import (
	"flag"
	"fmt"
	"io"
	"os"
	"runtime"
	"strconv"
	"testing"
	"time"

	"go.uber.org/goleak"

	"kusto-agent/cmd/agent/commands"
	"kusto-agent/internal/exit"
)

// asProgram is set in the environment of a child: the test binary is then the
// program itself, so that a signal, also SIGKILL, hits a real process.
const asProgram = "KUSTO_AGENT_TEST_AS_PROGRAM"

// readsStdin is set in the environment of a child that reads stdin itself.
const readsStdin = "KUSTO_AGENT_TEST_STDIN"

// fastScans is set in the environment of a child that is to look for files as
// often as it says.
const fastScans = "KUSTO_AGENT_TEST_RESCAN"

// fastRetries is the same for what cannot be read again just now.
const fastRetries = "KUSTO_AGENT_TEST_RETRY"

// longForm asks for the forms of the tests that take minutes.
var longForm = os.Getenv("KUSTO_AGENT_LONG") != ""

func TestMain(m *testing.M) {
	if os.Getenv(asProgram) != "" {
		if os.Getenv(readsStdin) == "" {
			// Ends with the process: whoever started it holds stdin open, so that no
			// child outlives a test binary that was killed.
			go func() {
				_, _ = io.Copy(io.Discard, os.Stdin)
				os.Exit(exit.Failed)
			}()
		}
		commands.Pace.Rescan, _ = time.ParseDuration(os.Getenv(fastScans))
		commands.Pace.Retry, _ = time.ParseDuration(os.Getenv(fastRetries))
		os.Exit(commands.Execute(os.Args[1:]))
	}
	if os.Getenv(asWriter) != "" {
		if err := writeLog(os.Args[1:]); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(exit.Failed)
		}
		os.Exit(0)
	}
	runMore()
	goleak.VerifyTestMain(m)
}

// runMore has more tests run at a time than there are cores, unless it was asked for
// so many: they wait for processes and timers most of the time, less so under the race detector.
func runMore() {
	flag.Parse()
	if f := flag.Lookup("test.parallel"); f.Value.String() == f.DefValue {
		each := 3
		if underRace {
			each = 2
		}
		_ = f.Value.Set(strconv.Itoa(each * runtime.GOMAXPROCS(0)))
	}
}
