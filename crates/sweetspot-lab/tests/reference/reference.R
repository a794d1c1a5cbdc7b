# Writes r.json: what R says about the samples in scipy.json. Rscript reference.R > r.json
text <- paste(readLines("scipy.json"), collapse = "")
found <- regmatches(text, gregexpr('"samples": \\[[^]]*\\]', text))[[1]]
number <- function(value) format(value, digits = 15)
rows <- sapply(found, function(piece) {
  samples <- scan(text = gsub('.*\\[|\\]', "", piece), sep = ",", quiet = TRUE)
  # Exact, as the estimate and the interval of n <= 40 samples without ties.
  test <- suppressWarnings(wilcox.test(samples, conf.int = TRUE, conf.level = 0.95, exact = TRUE))
  sprintf(
    '{"estimate": %s, "low": %s, "high": %s, "level": %s, "p": %s, "autocorrelation": %s}',
    number(test$estimate), number(test$conf.int[1]), number(test$conf.int[2]),
    number(attr(test$conf.int, "conf.level")), number(test$p.value),
    number(acf(samples, lag.max = 1, plot = FALSE)$acf[2])
  )
})
holm <- list(c(0.01, 0.04, 0.03, 0.005), c(0.5, 0.4, 0.03), c(0.02, 0.02), c(0.9), c(0.011, 0.012, 0.013, 0.8))
list_of <- function(values) paste0("[", paste(sapply(values, number), collapse = ", "), "]")
claims <- sapply(holm, function(p) {
  sprintf('{"p": %s, "holm": %s}', list_of(p), list_of(p.adjust(p, "holm")))
})
cat(sprintf('{"r": "%s",\n "cases": [\n  %s],\n "claims": [\n  %s]}\n', R.version.string,
            paste(rows, collapse = ",\n  "), paste(claims, collapse = ",\n  ")))
