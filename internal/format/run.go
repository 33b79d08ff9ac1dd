package format

// Where the records before were sound, the next ones are taken the quick way: JSON and MultiJSON
// by json_lines.go, delimited ones by rows.go. Both look at more of the data than one record, and
// know yes, and nothing else: what they do not take, scan takes by itself, and tells what is wrong.

const (
	// How many bytes are classified at a time: first, and at most, twice as many each time. Most
	// is small enough for them and their bits to stay in the cache, large enough that few
	// records lie across its end.
	leastStep = 1 << 10
	mostStep  = 8 << 10
)

// soundRun accepts the records from c.Consumed on for as long as they are found sound. It returns
// false if no more are to be read, for a reason that scan has too: data ends, the limit is reached,
// or a record has to wait for the next chunk. data begins at offset at of the file.
func (s *Scanner) soundRun(c *Chunk, data []byte, at int64, limit int) bool {
	k := cut{ended: true}
	for s.step > 0 {
		var beyond bool
		switch s.spec.Ends {
		case AtLine:
			k.n, beyond = s.soundObject(data, c.Consumed)
		case AtRow:
			k.n, k.fields, beyond = s.rows.row(data, c.Consumed, s.sep[0])
		case AtValue:
			if beyond = s.soundValue(&k, data, c.Consumed); k.n == 0 && isFiller(data[c.Consumed+k.lead]) {
				return true // a separator, which scan goes over; behind it the run goes on
			}
		}
		if k.n == 0 || k.n >= min(s.opt.MaxRecord, s.most) { // at the limit it depends on the format
			s.step = 0
			return true
		}
		k.ascii = !beyond
		if !s.extend(c, data, &k) && !s.accept(c, data, at, &k) {
			return false
		}
		if c.Consumed += k.n; c.Consumed == len(data) || limit > 0 && c.Records >= limit {
			return false
		}
	}
	return true
}

// extend is accept for the record of k if it only makes the body and its last piece longer, as
// nearly all do. It returns false, and does nothing, if more is to be done.
// What fits, join and note do for accept is written out here: to call them costs 2 to 5% of the check.
func (s *Scanner) extend(c *Chunk, data []byte, k *cut) bool {
	end := c.Consumed + k.n
	if !s.plain || !k.ended || k.lead+k.cr > 0 || c.Records == 0 || c.Copied || c.Lens != nil || c.base+len(c.Body) != c.Consumed || k.fields != c.Group ||
		s.opt.MaxBody > 0 && len(c.Prefix)+len(c.Body)+k.n > s.opt.MaxBody {
		return false
	}
	if !k.ascii && !validUTF8(data[c.Consumed:end]) {
		c.InvalidUTF8++
	}
	c.Body = data[c.base:end]
	last := &c.Pieces[len(c.Pieces)-1]
	last.End = end
	last.Records++
	c.Records++
	return true
}
