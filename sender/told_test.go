package sender

import (
	"regexp"
	"strings"
	"testing"
	"time"

	"kusto-agent/internal/kusto"
)

// TestFailuresTellWhatToDo: every message about a failure of the service has its
// words, the activity id, and what to do.
func TestFailuresTellWhatToDo(t *testing.T) {
	f := func(a kusto.Answer, hint string) {
		a.ActivityID, a.Hint = "act-1", hint
		if a.Err != nil {
			a.Err.Message, a.Err.ActivityID, a.Err.Hint = "their words", "act-1", hint
		}
		in(t, func(*kusto.Ingest) kusto.Answer { return a }, func(w *world) {
			w.s.Put(payload("T", "ab"))
			pass(time.Minute)
			told := 0
			for line := range strings.Lines(w.logs.String()) {
				if told++; !strings.Contains(line, "their words") || !strings.Contains(line, "act-1") || !fixed.MatchString(line) {
					t.Errorf("%v: %s", a.Verdict, line)
				}
			}
			if told == 0 {
				t.Errorf("%v is not told", a.Verdict)
			}
		})
	}
	f(refusal(kusto.NotSent, 0, ""), "look there")
	f(refusal(kusto.Retry, 500, "InternalError"), "")
	f(refusal(kusto.Throttled, 429, "Throttling"), "")
	f(refusal(kusto.Unknown, 502, ""), "")
	f(refusal(kusto.Hold, 403, "Forbidden"), "do it: .add table")
	f(refusal(kusto.Auth, 401, "Unauthorized"), "check it")
	f(refusal(kusto.BadData, 400, "BadRequest_InvalidBlob"), "")
	f(kusto.Answer{Verdict: kusto.Accepted, Status: 200, UpdatePolicy: "their words"}, "")
}

// TestSilenceIsTold: a cluster that is down since nobody has answered yet says so, and what to do.
func TestSilenceIsTold(t *testing.T) {
	in(t, func(*kusto.Ingest) kusto.Answer {
		time.Sleep(time.Minute)
		return refusal(kusto.NotSent, 0, "")
	}, func(w *world) {
		w.s.Put(payload("T", "ab"))
		pass(30 * time.Second)
		if told := w.logs.String(); !strings.Contains(told, "cluster is down") || !strings.Contains(told, "it has not answered yet") || !fixed.MatchString(told) {
			t.Errorf("told %s", told)
		}
	})
}

// fixed finds what to do in a line of the log.
var fixed = regexp.MustCompile(` fix=("[^"]|[^ "])`)
