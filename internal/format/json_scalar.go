package format

// scalarEnd returns the index after the number, true, false or null at i. If there is
// none, it returns ^j, where j is the index of the offending byte.
func scalarEnd(b []byte, i int) int {
	switch b[i] {
	case 't':
		return wordEnd(b, i, "true")
	case 'f':
		return wordEnd(b, i, "false")
	case 'n':
		return wordEnd(b, i, "null")
	}
	return numberEnd(b, i)
}

// wordEnd returns the index after word (true, false or null), which should be at i. If it is not
// there, it returns ^j, where j is the index of the first byte that differs.
func wordEnd(b []byte, i int, word string) int {
	if len(b)-i >= len(word) && string(b[i:i+len(word)]) == word {
		return i + len(word)
	}
	for n := 0; ; n, i = n+1, i+1 {
		if i == len(b) || b[i] != word[n] {
			return ^i
		}
	}
}

// numberEnd returns the index after the number at i, by RFC 8259. If there is none, it returns
// ^j, where j is the index of the offending byte.
func numberEnd(b []byte, i int) int {
	if b[i] == '-' {
		i++
	}
	if i < len(b) && b[i] == '0' {
		i++
	} else if i = digitsEnd(b, i); i < 0 {
		return i
	}
	if i < len(b) && b[i] == '.' {
		if i = digitsEnd(b, i+1); i < 0 {
			return i
		}
	}
	if i < len(b) && b[i]|0x20 == 'e' {
		if i++; i < len(b) && (b[i] == '+' || b[i] == '-') {
			i++
		}
		i = digitsEnd(b, i)
	}
	return i
}

// digitsEnd returns the index after the digits at i. If there is none, it returns ^i.
func digitsEnd(b []byte, i int) int {
	if i >= len(b) || !isDigit(b[i]) {
		return ^i
	}
	for i < len(b) && isDigit(b[i]) {
		i++
	}
	return i
}
