package format

// Objects of JSON that are sound need not be found before they are checked: a line of JSON
// ends behind its object, if a newline follows there and none is in it, and a record of
// MultiJSON ends there in any case. And the strings of many records are found in one go, so
// that the processor need not foretell for each where its newline and its last block are.

// soundObject returns the length of the record that begins at at in data, with its line end, if it
// is one sound object; 0: nothing is known. A line end must follow the object in JSON, and may in
// MultiJSON. beyond says that there may be bytes above 127. It is tried only while the records
// before were sound.
func (s *Scanner) soundObject(data []byte, at int) (n int, beyond bool) {
	m := &s.borders
	if data[at] != '{' {
		return 0, false
	}
	if at < m.base || at > m.base+m.known {
		m.begin(at)
		s.step = leastStep
	}
	for {
		start := at - m.base
		b := data[m.base:]
		most := min(quickMost, (len(b)-quickRoom)&^63) // what can be known
		if m.known > start && (m.known >= start+s.margin || m.known >= most || m.stuck) {
			end, ok := m.fit(b[:m.known+quickRoom], start)
			if end < m.known {
				line := lineEndAt(b, end)
				if !ok || line == 0 && !m.lines {
					return 0, false
				}
				n = end + line - start
				s.margin = min(2*n, mostStep/4)
				return n, m.isBeyond(start, end)
			}
		}
		switch {
		case m.stuck:
			return 0, false
		case m.known < most:
			m.stuck = !m.find(b, min(m.known+max(s.step, m.known-start), most))
			s.step = min(2*s.step, mostStep)
		case most == quickMost && start > 0:
			m.begin(at)
		default: // the data ends
			return 0, false
		}
	}
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
