package sender

import (
	"log/slog"
	"sync"
	"time"

	"kusto-agent/internal/kusto"
	"kusto-agent/internal/record"
)

// refusedEvery is how often the log says of one route that records were refused.
const refusedEvery = time.Minute

// refusals logs which records the service refused: the first of a route at once, and all that follow
// within a minute in one line, since each record has a request of its own.
type refusals struct {
	log *slog.Logger

	mu     sync.Mutex
	routes map[record.Route]*refused
}

// refused is what is to be logged of a route when its minute is over.
type refused struct {
	timer    *time.Timer
	records  int
	activity string // of the last
	err      *kusto.Error
}

// add counts records of a route that were refused with err, and are in quarantine.
func (x *refusals) add(r record.Route, records int, activity string, err *kusto.Error) {
	x.mu.Lock()
	defer x.mu.Unlock()
	f := x.routes[r]
	if f == nil {
		x.write(r, &refused{records: records, activity: activity, err: err})
		f = &refused{}
		f.timer = time.AfterFunc(refusedEvery, func() { x.due(r, f) }) // stopped by flush
		x.routes[r] = f
		return
	}
	f.records += records
	f.activity, f.err = activity, err
}

// due ends the minute of a route. If records were refused in it, it logs them, and another begins.
func (x *refusals) due(r record.Route, f *refused) {
	x.mu.Lock()
	defer x.mu.Unlock()
	switch {
	case x.routes[r] != f: // flushed meanwhile
	case f.records == 0:
		delete(x.routes, r)
	default:
		x.write(r, f)
		f.records = 0
		f.timer.Reset(refusedEvery)
	}
}

// flush logs what was not logged yet.
func (x *refusals) flush() {
	x.mu.Lock()
	defer x.mu.Unlock()
	for r, f := range x.routes {
		if f.timer.Stop(); f.records > 0 {
			x.write(r, f)
		}
	}
	clear(x.routes)
}

// write logs what was refused of a route. Needs mu.
func (x *refusals) write(r record.Route, f *refused) {
	x.log.Warn("records were refused and are in quarantine", "database", r.Database, "table", r.Table,
		"records", f.records, "activity", f.activity, "err", f.err,
		"fix", "look at them: kusto-agent quarantine ls --reason refused")
}
