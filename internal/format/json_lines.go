package format

// Lines of JSON that are sound need not be found before they are checked: where the object
// of a line ends, and nothing in it is a newline, the newline behind it is the first one. And
// the strings of many lines are found in one go, so that the processor need not foretell for
// each where its newline and its last block are.

// soundLine returns the length of the line that begins at at in data, with its line end, if it
// is one sound record; 0: nothing is known. beyond says that there may be bytes above 127. It
// is tried only while the records before were sound, and is to be told of blank lines with pass.
func (s *Scanner) soundLine(data []byte, at int) (n int, beyond bool) {
	c := &s.closing
	if data[at] != '{' {
		return 0, false
	}
	if c.next != at {
		c.begin(at)
		s.step = leastStep
	}
	for {
		start := at - c.base
		b := data[c.base:]
		most := min(quickMost, (len(b)-quickRoom)&^63) // what can be known
		if c.known > start && (c.known >= start+s.margin || c.known >= most || c.stuck) {
			end, ok := c.fit(b[:c.known+quickRoom], start)
			if end < c.known {
				if n = lineEndAt(b, end); !ok || n == 0 {
					break
				}
				c.next = at + end + n - start
				c.odd ^= n & 1 // of control characters
				s.margin = min(2*(c.next-at), mostStep/4)
				return c.next - at, c.isBeyond(start, end)
			}
		}
		switch {
		case c.stuck:
		case c.known < most:
			c.stuck = !c.find(b, min(c.known+max(s.step, c.known-start), most))
			s.step = min(2*s.step, mostStep)
			continue
		case most == quickMost && start > 0:
			c.begin(at)
			continue
		default: // the data ends
			c.next = -1
			return 0, false
		}
		break
	}
	s.step, c.next = 0, -1
	return 0, false
}

// lineEndAt returns the length of the line end at b[i], 0 if there is none.
func lineEndAt(b []byte, i int) int {
	switch {
	case b[i] == '\n':
		return 1
	case b[i] == '\r' && b[i+1] == '\n':
		return 2
	}
	return 0
}

// pass notes that a blank line begins at at in the data.
func (c *closing) pass(line []byte, at int) {
	if c.next != at {
		return
	}
	for _, b := range line {
		if b < ' ' {
			c.odd ^= 1
		}
	}
	c.next += len(line)
}
