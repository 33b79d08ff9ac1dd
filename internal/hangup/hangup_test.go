package hangup

import (
	"os"
	"os/signal"
	"syscall"
	"testing"
)

// TestMain: a SIGHUP that no test catches does not end the tests.
func TestMain(m *testing.M) {
	signal.Notify(make(chan os.Signal, 1), syscall.SIGHUP)
	os.Exit(m.Run())
}

// hangUp sends SIGHUP to this process.
func hangUp(t *testing.T) {
	t.Helper()
	if err := syscall.Kill(syscall.Getpid(), syscall.SIGHUP); err != nil {
		t.Fatal(err)
	}
}

func TestCaughtForRunAlone(t *testing.T) {
	c := atStart([]string{"kusto-agent", "run", "--once"})
	defer signal.Stop(c)
	for _, args := range [][]string{nil, {"kusto-agent"}, {"kusto-agent", "status"}, {"kusto-agent", "tap", "run"}, {"kusto-agent", "files", "--input", "run"}} {
		other := atStart(args)
		hangUp(t)
		<-c
		signal.Stop(other) // returns when the signal is on its way to it no longer
		if len(other) > 0 {
			t.Errorf("%q catches SIGHUP", args)
		}
	}
	for range 2 { // the second finds the first not received
		hangUp(t)
	}
	<-c
}

// TestCaughtWhenAsked: where run is not the first argument, Caught itself catches SIGHUP.
func TestCaughtWhenAsked(t *testing.T) {
	c := Caught()
	defer signal.Stop(caught)
	other := atStart([]string{"kusto-agent", "run"})
	hangUp(t)
	<-other
	signal.Stop(other) // returns when the signal is on its way to no channel any longer
	if len(c) == 0 {
		t.Error("Caught does not catch SIGHUP")
	}
}
