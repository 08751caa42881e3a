;;;; Returns how many workers this process should start, using CFFI.

(defpackage :creel
  (:use :common-lisp)
  (:export #:workers))

(in-package :creel)

(cffi:define-foreign-library libcreel (:unix "libcreel.so.1"))
(cffi:use-foreign-library libcreel)

(cffi:defcfun ("creel_workers" workers) :unsigned-int
  "Return the number of usable cores, with quotas rounded down. It is at least 1.")
