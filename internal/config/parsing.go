package config

import (
	"errors"
	"regexp/syntax"

	"kusto-agent/internal/format"
	"kusto-agent/tail"
)

// parses reports whether an input turns lines into JSON.
func parses(in *Input) bool {
	how, _ := format.ParseOf(in.Parse)
	return how != format.ParseNone
}

// parsing checks the keys of an input that say how its lines become records, such as parse, inner
// and multiline. Words that are not known have been reported before. at is the path of the input in
// the file src.
func (l *loader) parsing(in *Input, src *source, at string) {
	if m := in.Multiline; m != nil {
		switch how, _ := format.ParseOf(in.Parse); {
		case how.Container():
			src.bad(join(at, "multiline"), "not with parse: %s, whose messages are not joined: each line that a container writes is a record, whatever inner is; leave it out", in.Parse)
		case how != format.ParseText && how != format.ParseRegex:
			src.bad(join(at, "multiline"), "only with parse: text or regex, and parse is %s; leave it out, or set parse: text", in.Parse)
		}
		l.multiline(m, src, join(at, "multiline"))
	}
	l.takenApart(in, src, at)
	if spec, _ := format.Of(in.Format); spec.Ends == format.InBlocks && in.Encoding != "utf-8" {
		src.bad(join(at, "encoding"), "format %s is not text; leave it out", in.Format)
	}
}

// multiline checks the section multiline of an input, whose path in the file is at, and reports its
// mistakes.
func (l *loader) multiline(m *tail.Multiline, src *source, at string) {
	if m.MaxWait <= 0 {
		src.bad(join(at, "max_wait"), "%v is out of range; want more than 0", m.MaxWait)
	}
	lines := m.MaxLines
	if lines < 1 {
		src.bad(join(at, "max_lines"), "%d is out of range; want at least 1", lines)
		lines = 1
	}
	_, err := format.NewMultiline(m.Start, m.Preset, lines)
	var bad *syntax.Error
	switch {
	case err == nil:
	case errors.As(err, &bad):
		src.badWithin(join(at, "start"), m.Start, faultIn(m.Start, bad), notRegular(m.Start, bad))
	case m.Start == "" && m.Preset != "":
		src.bad(join(at, "preset"), "%q is not a preset; want %s", shortened(m.Preset), orList(format.Presets()))
	default:
		src.bad(at, "%v", err)
	}
}

// roomFor returns the largest max_record_size, in bytes of the file, with which a record fits into
// one batch, and in words what limits it, for a message.
func roomFor(in *Input) (most int64, why string) {
	if in.Encoding == "utf-16le" || in.Encoding == "utf-16be" {
		return int64(in.Batch.MaxSize) / 2, "half of batch.max_size, since a character has two bytes in the file"
	}
	return int64(in.Batch.MaxSize), "batch.max_size"
}
