package format

// scalarEnd returns the index behind the number or the word true, false or
// null at i, or the complement of the index of what makes it neither.
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

// numberEnd reads a number as RFC 8259 writes it: a sign, digits without a
// zero in front, a fraction, an exponent.
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

// digitsEnd wants one digit at least.
func digitsEnd(b []byte, i int) int {
	if i >= len(b) || !isDigit(b[i]) {
		return ^i
	}
	for i < len(b) && isDigit(b[i]) {
		i++
	}
	return i
}
