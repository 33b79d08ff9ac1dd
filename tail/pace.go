package tail

import (
	"context"
	"slices"
	"time"

	"kusto-agent/tail/internal/finder"
)

// untilNextScan waits until the next scan is due; scan is the cost of the last one. Meanwhile it
// does what comes between scans. It returns false when ctx has ended.
func (d *discovery) untilNextScan(ctx context.Context, scan finder.Cost) bool {
	polled := slices.ContainsFunc(d.t.inputs(), func(in *input) bool { return in.Watch == "poll" })
	pace := finder.Pace{Heard: d.t.watch.Healthy() && !polled, Busy: d.t.scans.no-d.stirred < busyFor, Most: d.t.o.Rescan}
	wait := pace.ScanWait(scan)
	due := time.Now().Add(wait)
	next, glance := time.NewTimer(wait), time.NewTimer(finder.GlanceWait(finder.Cost{}, false))
	defer next.Stop()
	defer glance.Stop()
	wanted := false
	for {
		select {
		case <-ctx.Done():
			return false
		case <-next.C:
			return true
		case c := <-d.t.reload.changes:
			d.change(c)
			return true
		case <-d.t.scans.wanted:
			d.meetFresh()
			if !wanted {
				wanted = true
				next.Reset(finder.NewsWait(scan, time.Until(due)))
			}
		case <-glance.C:
			var c finder.Cost
			grown := false
			if pace.NeedsGlance(wait) { // else the scan does it
				c = finder.CostOf(func() { grown = d.glance() })
			}
			glance.Reset(finder.GlanceWait(c, grown))
		}
	}
}

// busyFor is for how many scans names are taken to change often after they did.
const busyFor = 3
