package table

// Months are added as Java's calendar does it, which Apache Cassandra uses: days before
// 1582-10-15 are those of the Julian calendar, although texts of dates are not.

// gregorianStart is 1582-10-15 in days since 1970.
const gregorianStart = -141427

// julianOffset is the Julian day number of 1970-01-01.
const julianOffset = 2440588

// addMonths adds months to a time in milliseconds since 1970. A day that the month does not
// have becomes its last one.
func addMonths(milli, months int64) int64 {
	day, rest := floorDiv(milli, milliPerDay), floorMod(milli, milliPerDay)
	y, m, d := civilDate(day)
	total := y*12 + m - 1 + months
	y, m = floorDiv(total, 12), floorMod(total, 12)+1
	return dayOf(y, m, min(d, monthDays(y, m)))*milliPerDay + rest
}

// civilDate returns the date of a day since 1970, with the year 0 before the year 1.
func civilDate(day int64) (y, m, d int64) {
	n := day + julianOffset
	var century int64
	if day >= gregorianStart {
		a := n + 32044
		century = floorDiv(4*a+3, 146097)
		n = a - floorDiv(146097*century, 4)
	} else {
		n += 32082
	}
	year := floorDiv(4*n+3, 1461)
	e := n - floorDiv(1461*year, 4)
	month := (5*e + 2) / 153
	return 100*century + year - 4800 + month/10, month + 3 - 12*(month/10), e - (153*month+2)/5 + 1
}

// dayOf returns the day since 1970 of a date. Those that the change of the calendar left out
// are Julian.
func dayOf(y, m, d int64) int64 {
	a := (14 - m) / 12
	year, month := y+4800-a, m+12*a-3
	n := d + (153*month+2)/5 + 365*year + floorDiv(year, 4)
	if gregorian := n - floorDiv(year, 100) + floorDiv(year, 400) - 32045 - julianOffset; gregorian >= gregorianStart {
		return gregorian
	}
	return n - 32083 - julianOffset
}

// monthDays returns the number of the last day of a month.
func monthDays(y, m int64) int64 {
	switch m {
	case 4, 6, 9, 11:
		return 30
	case 2:
		if floorMod(y, 4) == 0 && (y <= 1582 || floorMod(y, 100) != 0 || floorMod(y, 400) == 0) {
			return 29
		}
		return 28
	}
	return 31
}

func floorDiv(a, b int64) int64 { return (a - floorMod(a, b)) / b }

func floorMod(a, b int64) int64 { return (a%b + b) % b }
