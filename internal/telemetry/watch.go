package telemetry

import (
	"context"
	"time"
)

// lookEvery is the time between two looks of Watch.
const lookEvery = 5 * time.Second

// Watch takes a status every 5 s, and at once after Look, until ctx ends. It adds the totals to the
// history of the last hour, which the page shows, and calls tell with the first headline and each
// time that the headline has changed.
func (s *Server) Watch(ctx context.Context, tell func(headline string)) {
	tick := time.NewTicker(lookEvery)
	defer tick.Stop()
	told := ""
	for {
		status := s.brief()
		s.history.add(time.Now(), s.totals(status))
		if text := status.Headline.Text; text != told {
			told = text
			tell(text)
		}
		select {
		case <-tick.C:
		case <-s.look:
		case <-ctx.Done():
			return
		}
	}
}

// Look makes Watch take a status now, because something has just changed. It never blocks.
func (s *Server) Look() {
	select {
	case s.look <- struct{}{}:
	default:
	}
}

// totals returns the figures of a status that the history keeps: records read and accepted, bytes
// accepted and the lag, each summed up, and the delays of payloads measured so far.
func (s *Server) totals(status *Status) totals {
	t := totals{delays: s.metrics.delays()}
	for _, in := range status.Inputs {
		t.read += in.Books.Read
		t.accepted += in.Books.Accepted
		t.lag += in.LagBytes
	}
	for _, table := range status.Tables {
		t.bytes += table.Accepted.Bytes
	}
	return t
}
