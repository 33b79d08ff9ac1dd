package wire

import (
	"log/slog"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"kusto-agent/internal/kusto"
	"kusto-agent/internal/kusto/internal/kustotest"
)

func TestClock(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var said strings.Builder
		c := NewClock(slog.New(slog.NewTextHandler(&said, nil)))
		at := func(off time.Duration) http.Header {
			return http.Header{"Date": {time.Now().Add(off).UTC().Format(http.TimeFormat)}}
		}
		told := func(n int) {
			t.Helper()
			if got := strings.Count(said.String(), "level=WARN"); got != n {
				t.Errorf("told %d times, want %d:\n%s", got, n, said.String())
			}
		}
		late := &kusto.Error{Status: 401, Code: "AADSTS700024", Hint: "do that", Timely: true}
		c.see(http.Header{})
		c.see(http.Header{"Date": {"yesterday"}})
		c.see(at(4 * time.Minute))
		c.see(http.Header{"Date": at(time.Hour)["Date"], "Age": {"3600"}})
		if told(0); c.Blame(late) != error(late) {
			t.Error("the clock is blamed")
		}
		c.see(at(7 * time.Minute))
		c.see(at(8 * time.Minute))
		told(1)
		if !strings.Contains(said.String(), `is="7m0s behind" fix="timedatectl set-ntp true"`) {
			t.Errorf("said %s", said.String())
		}
		if got := kustotest.ErrorOf(c.Blame(late)).Hint; !strings.HasPrefix(got, "the clock of this machine is 8m0s behind, set it right first: timedatectl set-ntp true; then: do that") {
			t.Errorf("hint %q", got)
		}
		other := &kusto.Error{Status: 400, Code: "AADSTS90002", Hint: "x"}
		if c.Blame(other) != error(other) || c.Blame(nil) != nil {
			t.Error("what has nothing to do with time is blamed on the clock")
		}
		c.see(at(0))
		c.see(at(-time.Hour))
		if told(2); !strings.Contains(said.String(), "1h0m0s ahead") {
			t.Errorf("said %s", said.String())
		}
		var none *Clock
		none.see(at(time.Hour))
	})
}
