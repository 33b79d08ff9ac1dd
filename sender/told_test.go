package sender

import (
	"regexp"
	"strings"
	"sync/atomic"
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

// TestTheLogIsNotFloodedByWhatEachRequestTells: what comes with each request is told of one route a few
// times, and then once a minute with how often it was.
func TestTheLogIsNotFloodedByWhatEachRequestTells(t *testing.T) {
	bad := refusal(kusto.BadData, 400, "BadRequest_InvalidBlob")
	away := refusal(kusto.Retry, 503, "ServiceUnavailable")
	for name, c := range map[string]struct {
		answer func(n int, in *kusto.Ingest) kusto.Answer
		want   map[string]int // in five minutes
		sums   string         // in one line
	}{
		"an update policy fails": {
			func(int, *kusto.Ingest) kusto.Answer {
				return kusto.Answer{Verdict: kusto.Accepted, Status: 200, UpdatePolicy: "Failed"}
			},
			map[string]int{"an update policy failed": 5}, " batches=60 records=120 ",
		},
		"a bad record in each batch": {
			func(_ int, in *kusto.Ingest) kusto.Answer {
				if strings.Contains(string(in.Body), "b") {
					return bad
				}
				return ok(in)
			},
			map[string]int{"batch was refused": 5, "are in quarantine": 5}, " times=60 ",
		},
		"every other request fails": {
			func(n int, in *kusto.Ingest) kusto.Answer {
				if n%2 == 1 {
					return away
				}
				return ok(in)
			},
			map[string]int{"will retry": 9, "route recovered": 9}, " times=60 ",
		},
	} {
		t.Run(name, func(t *testing.T) {
			var n atomic.Int64
			within(t, nil, roomy, func(w *world) {
				w.answer = func(in *kusto.Ingest) kusto.Answer { return c.answer(int(n.Add(1)), in) }
				for range 5*60 - 1 {
					w.s.Put(numbered("T", "ab"))
					pass(time.Second)
				}
				told := w.logs.String()
				for text, want := range c.want {
					if got := strings.Count(told, text); got != want {
						t.Errorf("%q is told %d times in five minutes, want %d", text, got, want)
					}
				}
				if !strings.Contains(told, c.sums) {
					t.Errorf("no line has%sin\n%.2000s", c.sums, told)
				}
			})
		})
	}
}

// TestABatchThatIsTooLargeHasNoBadRecords: it is told as too large, and nothing is said of bad records.
func TestABatchThatIsTooLargeHasNoBadRecords(t *testing.T) {
	within(t, func(in *kusto.Ingest) kusto.Answer {
		if len(in.Body) > 20_000 {
			return refusal(kusto.TooLarge, 413, "KustoRequestPayloadTooLargeException")
		}
		return ok(in)
	}, roomy, func(w *world) {
		w.s.Put(numbered("T", strings.Repeat("a", 32_000)))
		w.untilEmpty()
		if told := w.logs.String(); strings.Count(told, "too large") != 1 || strings.Contains(told, "bad records") {
			t.Errorf("told %s", told)
		}
	})
}

// TestBadRecordsOfABatchThatIsTooLarge: bad records in a half of a batch that was too large are searched
// for, and that is told once.
func TestBadRecordsOfABatchThatIsTooLarge(t *testing.T) {
	within(t, func(in *kusto.Ingest) kusto.Answer {
		switch {
		case len(in.Body) > 20_000:
			return refusal(kusto.TooLarge, 413, "KustoRequestPayloadTooLargeException")
		case strings.Contains(string(in.Body), "b"):
			return refusal(kusto.BadData, 400, "BadRequest_InvalidBlob")
		}
		return ok(in)
	}, roomy, func(w *world) {
		w.s.Put(numbered("T", strings.Repeat("a", 31_999)+"b"))
		w.untilEmpty()
		if told := w.logs.String(); strings.Count(told, "too large") != 1 || strings.Count(told, "find the bad records") != 1 {
			t.Errorf("told %s", told)
		}
	})
}

// TestFailuresAreToldBeforeTheirEnd: a failure that was not told at once is told before what ended the
// failures: the recovery of the route, or that it is held.
func TestFailuresAreToldBeforeTheirEnd(t *testing.T) {
	held := refusal(kusto.Hold, 403, "Forbidden")
	for end, answer := range map[string]func(in *kusto.Ingest) kusto.Answer{
		"route recovered": ok,
		"route is held":   func(*kusto.Ingest) kusto.Answer { return held },
	} {
		var asked atomic.Int64
		within(t, nil, roomy, func(w *world) {
			w.answer = func(in *kusto.Ingest) kusto.Answer {
				if n := int(asked.Add(1)); n < 8 { // each failure is another one than the last, so that each is told
					return refusal(kusto.Retry, 500+n%2*3, "ServiceUnavailable")
				}
				return answer(in)
			}
			w.s.Put(numbered("T", "ab"))
			pass(10 * time.Minute)
			told := w.logs.String()
			if failed, ended := strings.LastIndex(told, "will retry"), strings.LastIndex(told, end); strings.Count(told, "will retry") != 6 || ended < failed {
				t.Errorf("a failure is told after %q:\n%s", end, told)
			}
		})
	}
}

// TestTheLogEndsWithHowItIs: failures that are told later than they were come before the recovery that
// followed them, also at the stop, so that the last line about a table says how it is.
func TestTheLogEndsWithHowItIs(t *testing.T) {
	failing := func(n int) kusto.Answer { // each is told, since it differs from the one before
		if n%2 == 1 {
			return refusal(kusto.Retry, 503, "ServiceUnavailable")
		}
		return refusal(kusto.Retry, 500, "InternalError")
	}
	for name, later := range map[string]time.Duration{"it runs on": 10 * time.Minute, "it is stopped": 0} {
		t.Run(name, func(t *testing.T) {
			within(t, nil, roomy, func(w *world) {
				began := time.Now()
				var asked atomic.Int64
				w.answer = func(in *kusto.Ingest) kusto.Answer {
					if n := int(asked.Add(1)); time.Since(began) < 20*time.Second {
						return failing(n)
					}
					return ok(in)
				}
				w.s.Put(numbered("T", "ab"))
				w.s.Put(numbered("T", "cd"))
				w.untilEmpty()
				pass(later)
				w.s.Keep()
				told := strings.Split(strings.TrimSpace(w.logs.String()), "\n")
				if last := told[len(told)-1]; !strings.Contains(last, "route recovered") {
					t.Errorf("the last line is %s", last)
				}
				if all := w.logs.String(); !strings.Contains(all, " times=") {
					t.Errorf("no failure was told later:\n%s", all)
				}
			})
		})
	}
}
