package corpus

// jsonRecord is what a service logs of a request, or of something else.
func jsonRecord(w *writer) {
	w.tick(3000)
	w.text(`{"time":"`)
	w.time("2006-01-02T15:04:05.000000Z")
	w.text(`","level":"`)
	w.one(levels)
	w.text(`","service":"`)
	w.one(services)
	w.text(`","host":"`)
	w.one(hosts)
	w.text(`","trace_id":"`)
	w.hex(32)
	w.text(`"`)
	if w.chance(40) {
		w.text(`,"span_id":"`)
		w.hex(16)
		w.text(`"`)
	}
	w.text(`,"build":"2.14.`)
	w.number(uint64(w.skewed(12)))
	w.text(`","pod":"`)
	w.one(services)
	w.text("-")
	w.letters(5)
	w.text(`"`)
	if w.chance(70) {
		w.text(`,"method":"`)
		w.one(methods)
		w.text(`","path":"`)
		w.one(paths)
		if w.chance(50) {
			w.text("/")
			w.number(w.below(1_000_000))
		}
		w.text(`","status":`)
		w.one(statuses)
		w.text(`,"duration_ms":`)
		w.number(uint64(w.skewed(3000)))
		w.text(".")
		w.padded(w.below(1000), 3)
		w.text(`,"user":"u-`)
		w.number(100_000 + uint64(w.skewed(900_000)))
		w.text(`","remote":"`)
		w.ip()
		w.text(`"`)
	}
	w.text(`,"msg":"`)
	w.sentence(4, 14)
	w.text("\"}\n")
}

// k8sRecord is an audit event, a line of a container or one of an ingress.
func k8sRecord(w *writer) {
	w.tick(20_000)
	switch n := w.below(100); {
	case n < 55:
		auditRecord(w)
	case n < 75:
		containerRecord(w)
	default:
		w.text(`{"log":"`)
		w.ip()
		w.text(` - - [`)
		w.time("02/Jan/2006:15:04:05 -0700")
		w.text(`] \"`)
		requestLine(w)
		w.text(`\" `)
		w.one(statuses)
		w.text(" ")
		w.number(uint64(w.skewed(60_000)))
		w.text(` \"-\" \"`)
		w.agent()
		w.text(`\" `)
		w.number(w.below(2000))
		w.text(" 0.")
		w.padded(w.below(1000), 3)
		w.text(` [`)
		w.one(namespaces)
		w.text("-")
		w.one(services)
		w.text("-80] [] ")
		w.ip()
		w.text(`:8080 `)
		w.hex(32)
		w.text("\\n\",\"stream\":\"stdout\",\"time\":\"")
		w.time("2006-01-02T15:04:05.000000000Z")
		w.text("\"}\n")
	}
}

// pod appends the name of one.
func (w *writer) pod() {
	w.one(services)
	w.text("-")
	w.hex(9)
	w.text("-")
	w.letters(5)
}

func auditRecord(w *writer) {
	ns, res := namespaces[w.skewed(len(namespaces))], resources[w.skewed(len(resources))]
	w.text(`{"kind":"Event","apiVersion":"audit.k8s.io/v1","level":"Metadata","auditID":"`)
	w.uuid()
	w.text(`","stage":"ResponseComplete","requestURI":"/api/v1/namespaces/`, ns, "/", res)
	if w.chance(70) {
		w.text("/")
		w.pod()
	} else {
		w.text(`?allowWatchBookmarks=true\u0026resourceVersion=`)
		w.number(80_000_000 + w.below(9_000_000))
		w.text(`\u0026timeoutSeconds=`)
		w.number(300 + w.below(300))
	}
	w.text(`","verb":"`)
	w.one(verbs)
	w.text(`","user":{"username":"system:serviceaccount:`, ns, ":")
	w.one(services)
	w.text(`","uid":"`)
	w.uuid()
	w.text(`","groups":["system:serviceaccounts","system:serviceaccounts:`, ns, `","system:authenticated"]},"sourceIPs":["`)
	w.ip()
	w.text(`"],"userAgent":"`)
	w.agent()
	w.text(`","objectRef":{"resource":"`, res, `","namespace":"`, ns, `","name":"`)
	w.pod()
	w.text(`","uid":"`)
	w.uuid()
	w.text(`","apiVersion":"v1","resourceVersion":"`)
	w.number(80_000_000 + w.below(9_000_000))
	w.text(`"},"responseStatus":{"metadata":{},"code":`)
	w.one(statuses)
	w.text(`},"requestObject":{"metadata":{"resourceVersion":"`)
	w.number(80_000_000 + w.below(9_000_000))
	w.text(`","ownerReferences":[{"kind":"ReplicaSet","name":"`)
	w.pod()
	w.text(`","uid":"`)
	w.uuid()
	w.text(`"}]},"spec":{"nodeName":"`)
	w.one(hosts)
	w.text(`","image":"`)
	w.one(services)
	w.text("@sha256:")
	w.hex(64)
	w.text(`"}},"requestReceivedTimestamp":"`)
	w.time("2006-01-02T15:04:05.000000Z")
	w.text(`","stageTimestamp":"`)
	w.tick(4000)
	w.time("2006-01-02T15:04:05.000000Z")
	w.text(`","annotations":{"authorization.k8s.io/decision":"allow","authorization.k8s.io/reason":"RBAC: allowed by RoleBinding \"`)
	w.one(services)
	w.text("/", ns, "\\\"\"}}\n")
}

// containerRecord is an exception in one line of JSON.
func containerRecord(w *writer) {
	w.text(`{"log":"`)
	w.time("2006-01-02 15:04:05.000")
	w.text(` ERROR [http-nio-8080-exec-`)
	w.number(w.below(200))
	w.text(`] `)
	w.one(classes)
	w.text(` - `)
	w.sentence(3, 12)
	w.text(`\n`)
	w.one(exceptions)
	w.text(`: `)
	w.sentence(2, 8)
	for range 2 + w.skewed(20) {
		w.text(`\n\tat `)
		frame(w)
	}
	w.text("\\n\",\"stream\":\"stderr\",\"time\":\"")
	w.time("2006-01-02T15:04:05.000000000Z")
	w.text("\"}\n")
}

func frame(w *writer) {
	class := classes[w.skewed(len(classes))]
	file := class
	for i := range class {
		if class[i] == '.' {
			file = class[i+1:]
		}
	}
	w.text(class, ".")
	w.one(calls)
	w.text("(", file, ".java:")
	w.number(uint64(20 + w.skewed(900)))
	w.text(")")
}

func requestLine(w *writer) {
	w.one(methods)
	w.text(" ")
	w.one(paths)
	if w.chance(40) {
		w.text("/")
		w.number(w.below(5_000_000))
	}
	if w.chance(25) {
		w.text("?page=")
		w.number(uint64(w.skewed(80)))
		w.text("&q=")
		w.one(words)
		w.text("&sid=")
		w.hex(16)
	}
	w.text(" HTTP/1.1")
}

// nginxRecord is a line in the combined form. Clients come back: who asks for a
// page asks for more soon after.
func nginxRecord(w *writer) {
	w.tick(400_000)
	c := &w.clients[w.skewed(len(w.clients))]
	if c.ip == "" || w.chance(4) {
		c.ip, c.agent = w.aside(w.ip), w.aside(w.agent)
		c.user = "-"
		if w.chance(15) {
			c.user = services[w.skewed(len(services))]
		}
	}
	w.text(c.ip, " - ", c.user, " [")
	w.time("02/Jan/2006:15:04:05 -0700")
	w.text(`] "`)
	requestLine(w)
	w.text(`" `)
	w.one(statuses)
	w.text(" ")
	w.number(uint64(w.skewed(90_000)))
	w.text(` "`)
	if w.chance(60) {
		w.text("https://shop.contoso.com")
		w.one(paths)
	} else {
		w.text("-")
	}
	w.text(`" "`, c.agent, `" `)
	w.number(w.below(2))
	w.text(".")
	w.padded(uint64(w.skewed(1000)), 3)
	w.text(" ")
	w.hex(16)
	w.text("\n")
}

// csvRecord is a row of measurements and sales.
func csvRecord(w *writer) {
	w.tick(900_000)
	w.time("2006-01-02 15:04:05.000")
	w.text(",ORD-2026-")
	w.padded(w.clock/900_000%10_000_000, 8)
	w.text(",")
	w.hex(8)
	w.text(",")
	w.one(services)
	w.text(",")
	w.one(cities)
	w.text(",")
	w.number(w.below(40))
	w.text(".")
	w.number(w.below(10))
	w.text(",")
	w.number(uint64(w.skewed(1000)))
	w.text(",")
	if w.chance(80) {
		w.number(uint64(w.skewed(100_000)))
		w.text(".")
		w.padded(w.below(100), 2)
	}
	w.text(",")
	w.one([]string{"true", "false"})
	w.text(`,"`)
	w.sentence(2, 9)
	w.text(`",SKU-`)
	w.padded(uint64(w.skewed(20_000)), 6)
	w.text(",EUR,standard,")
	w.one(statuses)
	w.text("\n")
}

// mixedRecord changes its kind every 20 to 900 KB, with bursts of UTF-8: it is
// to make tables stale.
func mixedRecord(w *writer) {
	if w.left <= 0 {
		w.phase = int(w.below(5))
		w.left = int(20_000 + w.below(880_000))
		if w.phase == 4 {
			w.left /= 4
		}
	}
	before := len(w.buf)
	[]func(*writer){jsonRecord, k8sRecord, nginxRecord, csvRecord, utf8Record}[w.phase](w)
	w.left -= len(w.buf) - before
}

func syslogRecord(w *writer) {
	w.tick(3_000_000)
	w.time("Jan _2 15:04:05 ")
	w.one(hosts)
	w.text(" ")
	w.one(programs)
	w.text("[")
	w.number(1 + w.below(65_000))
	w.text("]: ")
	switch w.below(4) {
	case 0:
		w.text("Failed password for invalid user ")
		w.one(services)
		w.text(" from ")
		w.ip()
		w.text(" port ")
		w.number(1024 + w.below(64_000))
		w.text(" ssh2")
	case 1:
		w.text("[")
		w.number(w.clock / 1_000_000 % 10_000_000)
		w.text(".")
		w.padded(w.clock%1_000_000, 6)
		w.text("] IN=eth0 OUT= SRC=")
		w.ip()
		w.text(" DST=")
		w.ip()
		w.text(" LEN=")
		w.number(40 + w.below(1460))
		w.text(" TTL=")
		w.number(w.below(255))
		w.text(" PROTO=TCP SPT=")
		w.number(w.below(65_536))
		w.text(" DPT=443")
	default:
		w.sentence(4, 18)
	}
	w.text("\n")
}

// javaRecord is a line of a Java program, at times with a stack trace.
func javaRecord(w *writer) {
	w.tick(50_000)
	w.time("2006-01-02 15:04:05,000 ")
	w.one([]string{"INFO ", "DEBUG", "WARN ", "ERROR"})
	w.text(" [pool-")
	w.number(w.below(8))
	w.text("-thread-")
	w.number(w.below(64))
	w.text("] ")
	w.one(classes)
	w.text(" - ")
	w.sentence(3, 16)
	w.text("\n")
	if !w.chance(12) {
		return
	}
	for cause := range 1 + w.skewed(3) {
		if cause > 0 {
			w.text("Caused by: ")
		}
		w.one(exceptions)
		w.text(": ")
		w.sentence(2, 8)
		w.text("\n")
		for range 5 + w.skewed(40) {
			w.text("\tat ")
			frame(w)
			w.text("\n")
		}
	}
}

func utf8Record(w *writer) {
	w.tick(100_000)
	w.time("2006-01-02T15:04:05.000Z ")
	w.one(levels)
	w.text(" ")
	w.one(cities)
	w.text(" ")
	w.one(foreign)
	for range w.skewed(12) {
		// A syllable of Hangul, a kanji or a Cyrillic letter, as names have them.
		switch w.below(3) {
		case 0:
			w.text(string(rune(0xAC00 + w.below(11_000))))
		case 1:
			w.text(string(rune(0x4E00 + w.below(6000))))
		default:
			w.text(string(rune(0x0430 + w.below(32))))
		}
	}
	w.text(" id=")
	w.number(w.below(100_000_000))
	w.text("\n")
}

func logfmtRecord(w *writer) {
	w.tick(9000)
	w.text("ts=")
	w.time("2006-01-02T15:04:05.000Z")
	w.text(" caller=")
	w.one(services)
	w.text("/")
	w.one(calls)
	w.text(".go:")
	w.number(uint64(10 + w.skewed(800)))
	w.text(" level=")
	w.one(levels)
	w.text(" org_id=")
	w.number(uint64(w.skewed(5000)))
	w.text(" traceID=")
	w.hex(16)
	w.text(` msg="`)
	w.sentence(3, 10)
	w.text(`" duration=`)
	w.number(uint64(w.skewed(900)))
	w.text(".")
	w.number(w.below(1_000_000))
	w.text("ms size=")
	w.number(uint64(w.skewed(1_000_000)))
	w.text("\n")
}
