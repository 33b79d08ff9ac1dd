package telemetry

import (
	"context"
	"time"
)

// lookEvery is the time between two looks of Watch.
const lookEvery = 5 * time.Second

// Watch looks at the status now and then, until ctx ends, and at once after Look. It
// calls tell with the headline of the status, first and whenever that has changed.
func (s *Server) Watch(ctx context.Context, tell func(headline string)) {
	tick := time.NewTicker(lookEvery)
	defer tick.Stop()
	told := ""
	for {
		status := s.status()
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

// Look has Watch look again without waiting for its time: something has just changed.
// It never blocks.
func (s *Server) Look() {
	select {
	case s.look <- struct{}{}:
	default:
	}
}
