package main

import (
	"strings"
	"testing"
	"time"

	"kusto-agent/sender/internal/fleet"
)

// TestTableOfUndoneFleets: an agent that did not deliver everything within the limit is shown as never
// done, also where that is the first one.
func TestTableOfUndoneFleets(t *testing.T) {
	f := fleet.Fleet{Agents: 4, Slots: 1, Takes: time.Second, Every: time.Hour}
	var all []played
	for n := range f.Agents + 1 {
		done := []time.Duration{1 * time.Minute, 2 * time.Minute, 3 * time.Minute, 4 * time.Minute}[:n]
		all = append(all, played{Fleet: f, History: &fleet.History{Done: done, Accepted: 1, Seconds: make([]fleet.Second, 1)}})
	}
	text := table(all)
	for _, want := range []string{"never | never | never", "1:00 | never | never", "1:00 | 3:00 | never", "1:00 | 3:00 | 4:00"} {
		if !strings.Contains(text, "| "+want+" |") {
			t.Errorf("no row has %s:\n%s", want, text)
		}
	}
}
