package systemd

import (
	"log/slog"
	"slices"
	"testing"
	"testing/synctest"
	"time"
)

// TestNotifierKeepsTheNewestOfAKind, and the order of those.
func TestNotifierKeepsTheNewestOfAKind(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		read := make(chan struct{})
		var sent []string
		n := startNotifier(slog.New(slog.DiscardHandler), func(state string) error {
			<-read
			sent = append(sent, state)
			return nil
		})
		n.Tell("READY=1")
		synctest.Wait() // it is being sent
		for range 1000 {
			n.Tell("WATCHDOG=1")
		}
		n.Tell("RELOADING=1\nMONOTONIC_USEC=1")
		n.Tell("READY=1")
		n.Tell("RELOADING=1\nMONOTONIC_USEC=2")
		n.Tell("READY=1")
		n.Tell("STOPPING=1")
		began := time.Now()
		n.Close(time.Second)
		if waited := time.Since(began); waited != time.Second {
			t.Errorf("close waited %v", waited)
		}
		close(read)
		<-n.ended
		want := []string{"READY=1", "WATCHDOG=1", "RELOADING=1\nMONOTONIC_USEC=2", "READY=1", "STOPPING=1"}
		if !slices.Equal(sent, want) {
			t.Errorf("sent %q, want %q", sent, want)
		}
	})
}
