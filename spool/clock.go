package spool

import (
	"sync"
	"time"
)

// stands is how long the offset between the wall clock and the monotonic clock must be
// constant before the clock adopts it.
const stands = time.Hour

// clock is the time that payloads age by. It begins as the wall clock and then goes
// as the monotonic one, so that a wall clock that jumps makes no payload old; a new
// setting of the wall clock that has stood for an hour is taken over.
type clock struct {
	wall    func() time.Time
	elapsed func() time.Duration // monotonic, since any moment

	mu    sync.Mutex
	start time.Time     // wall clock less elapsed
	off   time.Duration // by how much the wall clock is ahead, as last seen
	since time.Duration // of elapsed: when it was first seen so
}

// newClock returns a clock that shows the time of wall now and then follows elapsed, a monotonic
// clock that counts from any moment.
func newClock(wall func() time.Time, elapsed func() time.Duration) *clock {
	c := &clock{wall: wall, elapsed: elapsed, since: elapsed()}
	c.start = wall().Add(-c.since)
	return c
}

// now returns the time by which payloads age.
func (c *clock) now() time.Time {
	t, _ := c.look()
	return t
}

// look returns the time of this clock and by how much the wall clock is ahead of it. The clock
// follows elapsed time. It takes over a jump of the wall clock only after the wall clock has kept
// the new distance for an hour (stands), give or take a minute.
func (c *clock) look() (time.Time, time.Duration) {
	const slack = time.Minute // a clock that is set right bit by bit does not jump
	c.mu.Lock()
	defer c.mu.Unlock()
	e := c.elapsed()
	off := c.wall().Round(0).Sub(c.start.Add(e).Round(0))
	switch {
	case (off - c.off).Abs() > slack:
		c.off, c.since = off, e
	case e-c.since >= stands:
		c.start, c.off, c.since, off = c.start.Add(off), 0, e, 0
	}
	return c.start.Add(e), off
}
