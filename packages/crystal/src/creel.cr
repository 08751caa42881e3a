# Makes a program obey `--jobs N` (or `-j N`, `-jN`, `--jobs=N`) before its runtime starts.
#
# Crystal reads the number of its workers from CRYSTAL_WORKERS before any line of the program
# runs, and takes 4 whatever the machine. So whoever requires this file starts itself once more,
# with that variable set; a variable that is set already stays. Require it first.
module Creel
  # The number that the arguments ask for.
  def self.jobs(arguments = ARGV) : Int32?
    arguments.each_with_index do |word, i|
      return nil if word == "--"
      text = case word
             when "--jobs", "-j"   then arguments[i + 1]?
             when /\A--jobs=(.*)/  then $1
             when /\A-j(\d+)\z/    then $1
             end
      number = text.try &.to_i?
      return number if number && number > 0
    end
    nil
  end

  # Starts the program again where it is not sized yet.
  def self.size_workers
    return if ENV["CRYSTAL_WORKERS"]?
    count = jobs
    path = Process.executable_path
    return unless count && path
    Process.exec(path, ARGV, env: {"CRYSTAL_WORKERS" => count.to_s})
  end
end

Creel.size_workers
