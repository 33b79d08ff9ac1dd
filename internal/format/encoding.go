package format

import (
	"bytes"
	"encoding/binary"
	"math/bits"
	"unicode/utf16"
	"unicode/utf8"
)

// Encoding is how the text of a file is written. What is sent is always UTF-8.
type Encoding uint8

// The encodings of files.
const (
	UTF8    Encoding = iota
	UTF16LE          // two bytes a unit, the low one first
	UTF16BE          // the high one first
	Latin1           // ISO 8859-1: a byte is a character, 0x80 to 0x9F are control characters
)

var encodings = []string{"utf-8", "utf-16le", "utf-16be", "latin1"}

// EncodingOf finds an encoding by its name in the configuration; false: none has this name.
func EncodingOf(name string) (Encoding, bool) { return wordOf[Encoding](encodings, name) }

func (e Encoding) String() string { return encodings[e] }

// unit is the number of bytes of the smallest character.
func (e Encoding) unit() int {
	if e == UTF16LE || e == UTF16BE {
		return 2
	}
	return 1
}

// marks are the byte order marks that files begin with.
var marks = []struct {
	bytes string
	of    Encoding
}{{"\xEF\xBB\xBF", UTF8}, {"\xFF\xFE", UTF16LE}, {"\xFE\xFF", UTF16BE}}

// Mark returns the encoding that a byte order mark at the beginning of head names; false: head
// begins with none.
func Mark(head []byte) (Encoding, bool) {
	for _, m := range marks {
		if bytes.HasPrefix(head, []byte(m.bytes)) {
			return m.of, true
		}
	}
	return 0, false
}

// mostWindow is how much of the data is decoded at a time, unless a record is
// longer: it stays in the cache of a core until it was scanned.
const (
	leastWindow = 4 << 10
	mostWindow  = 256 << 10
)

// scanDecoded is Scan for files that are not UTF-8. It first decodes about as many bytes as
// records are likely to take, and four times as many each time that they hold no whole record.
// The result does not depend on how much was decoded at once.
func (s *Scanner) scanDecoded(data []byte, at int64, last bool, limit int, c *Chunk) {
	for n := max(s.window, leastWindow); ; n *= 4 {
		raw := data[:min(n, len(data))]
		whole := len(raw) == len(data)
		s.decode(c, raw, last && whole)
		s.ends = s.quiet && whole
		s.scan(c.text, at, last && whole, limit, c)
		if c.Consumed > 0 || c.Long || whole {
			break
		}
	}
	s.raw = nil // its memory belongs to the caller
	s.window = min(max(4*c.Consumed, leastWindow), mostWindow)
	c.Copied = true
	// Rejected records keep their bytes as they are in the file, and not the decoded text.
	c.held = c.held[:0]
	for i := range c.Rejected {
		j := &c.Rejected[i]
		held := len(c.held)
		c.held = append(c.held, data[j.Start:min(j.End, j.Start+s.opt.MaxRecord*s.opt.Encoding.unit())]...)
		j.Data = c.held[held:len(c.held):len(c.held)]
	}
}

// decode decodes raw into c.text, as UTF-8, and sets s.lossy if raw holds invalid characters. A
// character of which raw has only the beginning is left out, unless the file ends there (last).
func (s *Scanner) decode(c *Chunk, raw []byte, last bool) {
	s.raw, s.lossy, s.known = raw, false, place{}
	switch s.opt.Encoding {
	case Latin1:
		c.text = appendLatin1(c.text[:0], raw)
	default:
		c.text, s.lossy = appendUTF16(c.text[:0], raw, s.opt.Encoding == UTF16BE, last)
	}
	s.text = c.text
}

// place is the same place in the text and in the bytes it was decoded from.
type place struct{ text, source int }

// pos converts an index in the decoded text to one in the scanned data.
func (s *Scanner) pos(i int) int {
	if s.opt.Encoding == UTF8 {
		return i
	}
	return s.sourcePos(i)
}

// sourcePos converts an index in the decoded text to one in the data that it was decoded from. It
// counts from the index that it was asked for last, forwards or backwards, so the text between
// both must not have been moved since.
func (s *Scanner) sourcePos(i int) int {
	p := &s.known
	if i >= p.text {
		p.source += s.opt.Encoding.sourceLen(s.text[p.text:i])
	} else {
		p.source -= s.opt.Encoding.sourceLen(s.text[i:p.text])
	}
	p.text = i
	return min(p.source, len(s.raw)) // half a unit that ends a file counts as one
}

// replaced reports whether text, which is at index i of the decoded text, has a replacement
// character that stands for invalid bytes. The file may contain that character itself, so the
// source bytes are decoded again.
func (s *Scanner) replaced(text []byte, i int) bool {
	if !s.lossy || !bytes.Contains(text, []byte("\uFFFD")) {
		return false
	}
	raw := s.raw[s.pos(i):s.pos(i+len(text))]
	var lossy bool
	s.again, lossy = appendUTF16(s.again[:0], raw, s.opt.Encoding == UTF16BE, true)
	return lossy
}

// sourceLen returns how many bytes UTF-8 text has in the encoding e (Latin-1 or UTF-16).
func (e Encoding) sourceLen(text []byte) int {
	// chars: bytes that begin a character; four: characters of four bytes, two units each
	chars, four := len(text), 0
	for ; len(text) >= 8; text = text[8:] {
		if w := binary.LittleEndian.Uint64(text); w&eighthBits != 0 {
			chars -= bits.OnesCount64(w >> 7 &^ (w >> 6) & everyByte)
			four += bits.OnesCount64(w >> 7 & (w >> 6) & (w >> 5) & (w >> 4) & everyByte)
		}
	}
	for _, b := range text {
		if b&0xC0 == 0x80 {
			chars--
		} else if b >= 0xF0 {
			four++
		}
	}
	if e == Latin1 {
		return chars
	}
	return 2 * (chars + four)
}

// appendLatin1 appends raw, which is Latin-1, as UTF-8: each byte above 127 becomes two.
func appendLatin1(dst, raw []byte) []byte {
	for len(raw) > 0 {
		n := asciiRun(raw)
		dst, raw = append(dst, raw[:n]...), raw[n:]
		for len(raw) > 0 && raw[0] >= utf8.RuneSelf {
			dst, raw = append(dst, 0xC0|raw[0]>>6, 0x80|raw[0]&0x3F), raw[1:]
		}
	}
	return dst
}

// asciiRun is the length of the ASCII that b begins with.
func asciiRun(b []byte) int {
	i := 0
	for ; i+8 <= len(b); i += 8 {
		if hit := binary.LittleEndian.Uint64(b[i:]) & eighthBits; hit != 0 {
			return i + bits.TrailingZeros64(hit)/8
		}
	}
	for i < len(b) && b[i] < utf8.RuneSelf {
		i++
	}
	return i
}

// appendUTF16 appends raw, which is UTF-16 (big-endian if big is set), as UTF-8. last says that
// the file ends with raw; otherwise a character of which raw has only the beginning is left out.
// Half of a surrogate pair, and a single byte at the end of a file, become the replacement
// character; lossy says so.
func appendUTF16(dst, raw []byte, big, last bool) (text []byte, lossy bool) {
	for len(raw) >= 2 {
		for len(raw) >= 8 { // four units of ASCII
			w := binary.LittleEndian.Uint64(raw)
			if big {
				w = w>>8&0x00FF00FF00FF00FF | w<<8&0xFF00FF00FF00FF00
			}
			if w&0xFF80FF80FF80FF80 != 0 {
				break
			}
			dst = append(dst, byte(w), byte(w>>16), byte(w>>32), byte(w>>48))
			raw = raw[8:]
		}
		if len(raw) < 2 {
			break
		}
		r := unitOf(raw, big)
		if !utf16.IsSurrogate(r) {
			dst, raw = utf8.AppendRune(dst, r), raw[2:]
			continue
		}
		if len(raw) < 4 && !last && r < 0xDC00 {
			return dst, lossy
		}
		pair := rune(utf8.RuneError)
		if len(raw) >= 4 {
			pair = utf16.DecodeRune(r, unitOf(raw[2:], big))
		}
		dst, raw = utf8.AppendRune(dst, pair), raw[2:]
		if pair == utf8.RuneError {
			lossy = true
		} else {
			raw = raw[2:]
		}
	}
	if last && len(raw) == 1 {
		return utf8.AppendRune(dst, utf8.RuneError), true
	}
	return dst, lossy
}

// unitOf returns the UTF-16 unit in the first two bytes of raw.
func unitOf(raw []byte, big bool) rune {
	if big {
		return rune(binary.BigEndian.Uint16(raw))
	}
	return rune(binary.LittleEndian.Uint16(raw))
}

// places converts the length of the byte order mark and the number of consumed bytes of a chunk
// from decoded text to the bytes of the file.
func (s *Scanner) places(c *Chunk) {
	if s.opt.Encoding != UTF8 {
		c.BOM, c.Consumed = min(c.BOM, s.opt.Encoding.unit()), s.pos(c.Consumed)
	}
}

// skipLongDecoded is SkipLong for files that are not UTF-8: it decodes data, looks for the end of
// the record in the text, and returns n in bytes of data. done says that the record ends there.
func (s *Scanner) skipLongDecoded(data []byte, indent int, last bool) (n int, done bool) {
	n, done = s.skipLong(s.decodeSkipped(data, last), indent, last)
	n, s.raw = s.pos(n), nil // raw is the caller's memory
	return n, done
}

// decodeSkipped returns the text of data, in memory that is valid until the next call. last says
// that nothing follows data.
func (s *Scanner) decodeSkipped(data []byte, last bool) []byte {
	c := Chunk{text: s.skipped}
	s.decode(&c, data, last)
	s.skipped = c.text
	return c.text
}

// Border returns the bytes after which reading can begin in the middle of a file: a
// newline or, in Avro, the sync marker of the file that Prepare has read; nil if the file
// has no header. They count only at offsets that are multiples of unit.
func (s *Scanner) Border() (border []byte, unit int) {
	switch {
	case s.spec.Ends == InBlocks:
		return s.head.sync(), 1
	case s.opt.Encoding == UTF16LE:
		return []byte("\n\x00"), 2
	case s.opt.Encoding == UTF16BE:
		return []byte("\x00\n"), 2
	}
	return []byte{'\n'}, 1
}
