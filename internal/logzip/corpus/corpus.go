// Package corpus makes text that looks like the logs of real programs, for
// tests and benchmarks: of the same kind, size and seed it is the same bytes on
// every machine.
package corpus

import "bytes"

// Kind is one kind of log.
type Kind struct {
	Name string
	// Tuned tells that the encoder was tuned with it. The others show what
	// that is worth elsewhere.
	Tuned bool
	write func(*writer)
}

// Kinds are all kinds, those first that the encoder was tuned with.
func Kinds() []Kind {
	return []Kind{
		{"json", true, jsonRecord},
		{"k8s", true, k8sRecord},
		{"nginx", true, nginxRecord},
		{"csv", true, csvRecord},
		{"mixed", true, mixedRecord},
		{"syslog", false, syslogRecord},
		{"java", false, javaRecord},
		{"utf8", false, utf8Record},
		{"logfmt", false, logfmtRecord},
	}
}

// Of is the kind of that name. It panics where there is none.
func Of(name string) Kind {
	for _, k := range Kinds() {
		if k.Name == name {
			return k
		}
	}
	panic("no corpus " + name)
}

// Make returns at most n bytes of whole records, or n bytes of the first one
// where that is longer.
func (k Kind) Make(n int, seed uint64) []byte {
	w := &writer{random: random(seed)}
	w.clock = 1_772_000_000_000_000 + w.below(1_000_000_000_000)
	w.buf = make([]byte, 0, n+4096)
	for len(w.buf) < n {
		k.write(w)
	}
	w.buf = w.buf[:n]
	if end := bytes.LastIndexByte(w.buf, '\n') + 1; end > 0 {
		w.buf = w.buf[:end]
	}
	return w.buf
}

// Payloads are count payloads in a row of one stream, at most n bytes each.
func (k Kind) Payloads(n, count int, seed uint64) [][]byte {
	whole := k.Make(n*count, seed)
	var all [][]byte
	for range count {
		cut := min(n, len(whole))
		if end := bytes.LastIndexByte(whole[:cut], '\n') + 1; end > 0 {
			cut = end
		}
		all, whole = append(all, whole[:cut:cut]), whole[cut:]
	}
	return all
}
