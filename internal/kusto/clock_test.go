package kusto

import (
	"log/slog"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

func TestClock(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var said strings.Builder
		c := newClock(slog.New(slog.NewTextHandler(&said, nil)))
		at := func(off time.Duration) http.Header {
			return http.Header{"Date": {time.Now().Add(off).UTC().Format(http.TimeFormat)}}
		}
		told := func(n int) {
			t.Helper()
			if got := strings.Count(said.String(), "level=WARN"); got != n {
				t.Errorf("told %d times, want %d:\n%s", got, n, said.String())
			}
		}
		late := &Error{Status: 401, Code: "AADSTS700024", Hint: "do that", timely: true}
		c.see(http.Header{})
		c.see(http.Header{"Date": {"yesterday"}})
		c.see(at(4 * time.Minute))
		c.see(http.Header{"Date": at(time.Hour)["Date"], "Age": {"3600"}})
		if told(0); c.blame(late) != error(late) {
			t.Error("the clock is blamed")
		}
		c.see(at(7 * time.Minute))
		c.see(at(8 * time.Minute))
		told(1)
		if !strings.Contains(said.String(), `is="7m0s behind" fix="timedatectl set-ntp true"`) {
			t.Errorf("said %s", said.String())
		}
		if got := fixOf(c.blame(late)); !strings.HasPrefix(got, "the clock of this machine is 8m0s behind, set it right first: timedatectl set-ntp true; then: do that") {
			t.Errorf("hint %q", got)
		}
		other := &Error{Status: 400, Code: "AADSTS90002", Hint: "x"}
		if c.blame(other) != error(other) || c.blame(nil) != nil {
			t.Error("what has nothing to do with time is blamed on the clock")
		}
		c.see(at(0))
		c.see(at(-time.Hour))
		if told(2); !strings.Contains(said.String(), "1h0m0s ahead") {
			t.Errorf("said %s", said.String())
		}
		var none *clock
		none.see(at(time.Hour))
	})
}
