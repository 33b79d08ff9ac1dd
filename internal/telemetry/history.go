package telemetry

import (
	"math"
	"strconv"
	"strings"
	"sync"
	"time"
)

const (
	historySpan  = time.Hour
	historySize  = int(historySpan / lookEvery)
	ratesOver    = 30 * time.Second // what a rate of now is the mean of
	historyBreak = 3 * lookEvery    // between two looks: longer, and nothing is known of the time between
	historyStep  = lookEvery / 2    // between two samples: a look that follows sooner adds none
)

// totals are what the agent has counted since its start, and how far it is behind.
type totals struct {
	read, accepted, bytes uint64 // records, records, and the bytes of the accepted ones
	lag                   int64
	delays                delays
}

// delays are the times from the reading of the oldest record of a payload to its
// acceptance, of all payloads.
type delays struct {
	payloads uint64
	sum      time.Duration
}

// Rates are what passes a second, as the mean of the last 30 s. The page, status and
// top show them; nothing in them is known in the first seconds of the agent.
type Rates struct {
	Read     float64 `json:"read_records_per_second"`
	Accepted float64 `json:"accepted_records_per_second"`
	Bytes    float64 `json:"accepted_bytes_per_second"`
	// Delay is how long records took from being read to being accepted, in seconds;
	// 0 where none was accepted.
	Delay float64 `json:"delay_seconds"`
}

// point is what one look added: what passed since the look before.
type point struct {
	at      time.Time
	over    time.Duration // since the look before; 0: nothing is known of it
	was     totals        // at the look before
	now     totals
	visible bool
}

// history is the last hour in looks, of a fixed size. It is safe for concurrent use.
type history struct {
	mu   sync.Mutex
	ring [historySize]point
	next int
}

// add adds a sample of the totals, taken at this time, to the ring of the last hour. If the clock
// was set back, or samples are missing, the time since the previous sample counts as not known. A
// sample that follows the previous one too soon (historyStep) is left out: a single payload that is
// accepted in a millisecond would make a rate that is far too high.
func (h *history) add(at time.Time, now totals) {
	h.mu.Lock()
	defer h.mu.Unlock()
	last := h.ring[(h.next+historySize-1)%historySize]
	p := point{at: at, now: now, visible: true}
	switch over := at.Sub(last.at); {
	case !last.visible, over < 0, over > historyBreak:
	case over < historyStep:
		return
	default:
		p.over, p.was = over, last.now
	}
	h.ring[h.next] = p
	h.next = (h.next + 1) % historySize
}

// points returns the samples of the hour before now, the oldest first.
func (h *history) points(now time.Time) (out []point) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for i := range historySize {
		if p := h.ring[(h.next+i)%historySize]; p.visible && now.Sub(p.at) < historySpan {
			out = append(out, p)
		}
	}
	return out
}

// ratesOf returns the mean rates over the last 30 s (ratesOver) before now, or over the time since
// the last gap between samples, if that is shorter. points are samples, the oldest first. A rate
// that is not known is 0.
func ratesOf(points []point, now time.Time) (r Rates) {
	var sum point
	for i := len(points) - 1; i >= 0 && now.Sub(points[i].at) < ratesOver; i-- {
		p := points[i]
		if p.over == 0 { // a gap: the counters grew in it, for a time that is not known
			break
		}
		if sum.over == 0 { // the newest sample
			sum.now = p.now
		}
		sum.over, sum.was = sum.over+p.over, p.was
	}
	r.Read, _ = sum.readRate()
	r.Accepted, _ = sum.acceptedRate()
	r.Bytes, _ = sum.byteRate()
	r.Delay, _ = sum.delay()
	return r
}

// Each says whether its value is known.
func (p point) readRate() (float64, bool)     { return p.rate(p.was.read, p.now.read) }
func (p point) acceptedRate() (float64, bool) { return p.rate(p.was.accepted, p.now.accepted) }
func (p point) byteRate() (float64, bool)     { return p.rate(p.was.bytes, p.now.bytes) }
func (p point) lag() (float64, bool)          { return float64(p.now.lag), p.visible }

// delay returns the mean time from read to accepted, in seconds, of the payloads that were accepted
// since the sample before; false if there were none or that is not known.
func (p point) delay() (float64, bool) {
	n := p.now.delays.payloads - p.was.delays.payloads
	if p.over == 0 || n == 0 {
		return 0, false
	}
	return (p.now.delays.sum - p.was.delays.sum).Seconds() / float64(n), true
}

// rate returns how much a counter that went from was to now grew per second since the sample
// before; false if that is not known.
func (p point) rate(was, now uint64) (float64, bool) {
	if p.over == 0 || now < was {
		return 0, false
	}
	return float64(now-was) / p.over.Seconds(), true
}

// Of a plot in the units of its picture, which the page stretches.
const (
	plotWidth  = 360
	plotHeight = 72
	plotStep   = 3 // units that one value of the plot takes: half a minute
)

// plot is a value over the last hour as the paths of a picture. It is empty where
// nothing is known.
type plot struct {
	Line, Area string  // the data of SVG paths
	Top        float64 // what the upper edge stands for
	Last       float64 // the newest value
	Known      bool    // there is one
	Fresh      bool    // and it is of the last 30 s
}

// plotOf draws the result of value for the points of the hour before now as an SVG line and area.
// value returns false if it is not known. Points of half a minute become their mean, and the line
// has a gap while nothing is known.
func plotOf(points []point, now time.Time, value func(point) (float64, bool)) (out plot) {
	const columns = plotWidth / plotStep
	var sum [columns]float64
	var count [columns]int
	for _, p := range points {
		age := now.Sub(p.at)
		v, known := value(p)
		if !known || age < 0 || age >= historySpan {
			continue
		}
		i := columns - 1 - int(age*columns/historySpan)
		sum[i] += v
		count[i]++
		out.Known, out.Last, out.Fresh = true, v, age < ratesOver
	}
	for i := range sum {
		if count[i] > 0 {
			sum[i] /= float64(count[i])
			out.Top = max(out.Top, sum[i])
		}
	}
	scale := roundUp(out.Top)
	if out.Top > 0 {
		out.Top = scale
	}
	var line, area strings.Builder
	for i := 0; i < columns; i++ {
		if count[i] == 0 {
			continue
		}
		first := i
		for i+1 < columns && count[i+1] > 0 {
			i++
		}
		area.WriteString("M" + coordinate(first, plotHeight))
		for j := first; j <= i; j++ {
			at := coordinate(j, plotHeight-sum[j]/scale*plotHeight)
			if j == first {
				line.WriteString("M" + at)
			} else {
				line.WriteString("L" + at)
			}
			area.WriteString("L" + at)
		}
		if first == i { // a line of one value alone would not be seen
			line.WriteString("h1")
		}
		area.WriteString("L" + coordinate(i, plotHeight) + "Z")
	}
	out.Line, out.Area = line.String(), area.String()
	return out
}

// coordinate returns a point of an SVG path, in the middle of a column.
func coordinate(column int, y float64) string {
	return strconv.Itoa(column*plotStep+plotStep/2) + " " + strconv.FormatFloat(math.Round(y*10)/10, 'f', -1, 64)
}

// roundUp returns the least number not below v that is 1, 2 or 5 times a power of ten; 1 for 0 and
// less. It is the upper edge of a plot.
func roundUp(v float64) float64 {
	if v <= 0 {
		return 1
	}
	unit := math.Pow(10, math.Floor(math.Log10(v)))
	for _, n := range []float64{1, 2, 5} {
		if v <= n*unit {
			return n * unit
		}
	}
	return 10 * unit
}
