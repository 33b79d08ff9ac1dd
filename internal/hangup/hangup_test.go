package hangup

import (
	"os"
	"os/signal"
	"syscall"
	"testing"
)

func TestCaughtForRunAlone(t *testing.T) {
	c := atStart([]string{"kusto-agent", "--once", "run"})
	defer signal.Stop(c)
	for range 2 { // the second finds the first not received
		if err := syscall.Kill(syscall.Getpid(), syscall.SIGHUP); err != nil {
			t.Fatal(err)
		}
	}
	<-c
	other := atStart([]string{"kusto-agent", "status"})
	if err := syscall.Kill(syscall.Getpid(), syscall.SIGHUP); err != nil {
		t.Fatal(err)
	}
	<-c
	if len(other) > 0 {
		t.Error("status catches SIGHUP")
	}
	if c := atStart(nil); len(c) > 0 {
		t.Error("without a command line")
	}
	if Caught() != (<-chan os.Signal)(caught) {
		t.Error("another channel")
	}
}
